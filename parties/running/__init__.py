"""One run at one party: the worker process, the driver that moves a program's effects past the gate, its run folder."""
