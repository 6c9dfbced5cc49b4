"""The language of algorithms: programs, their source lines, and the collectives that they implement."""
