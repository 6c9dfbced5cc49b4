"""From a few ranks to many: the parallel plan, and what follows from it."""
