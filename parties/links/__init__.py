"""The mutual-TLS link between two parties' workers, its memory fake, and the handshake on it."""
