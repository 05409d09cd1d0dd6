"""Horizontal federated learning: clients that hold the same features of different people."""
