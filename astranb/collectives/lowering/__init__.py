"""Lowering: from semaphores to packets, and from programs to the tables that the machine runs."""
