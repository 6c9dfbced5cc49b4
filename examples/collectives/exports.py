"""From a function to files that run on GPUs: MSCCL's XML and MSCCL++'s JSON, and what they cost."""

from pathlib import Path

import astranb as anb


def exports(algorithm, collective="all_gather", ranks=8, size="1 MiB", folder="."):
    """Write both files, read them back, simulate them; return notes and times."""
    function = anb.collectives.Collective.of(collective, size, algorithm, channels=1)
    infra = f"switch:gpus={ranks}"
    sim = anb.Simulation(infra, function, record=False)
    sim.run()
    print(f"{function.title:40} {sim.now_us:8.2f} us")
    for ending in ("xml", "json"):
        file = Path(folder, f"{function.algorithm_name}.{ending}")
        notes = anb.collectives.write_algorithm(function.program(infra), file)
        plan = anb.collectives.read_algorithm(file)
        again = anb.Simulation(infra, anb.collectives.Collective.of(collective, size, plan), record=False)
        again.run()
        print(f"{file.name:40} {again.now_us:8.2f} us", *notes, sep="\n    ")


if __name__ == "__main__":
    from pat import pat

    exports(pat)
