"""A plug-in: products of matrices take what was measured; other kernels what astranb's model says."""

from astranb.experimental import CostModel
from astranb.workload import kernels

MEASURED_NS = {(2048, 2304, 768): 31_000, (2048, 768, 768): 14_500, (2048, 3072, 768): 40_000}
"""By rows, columns and the inner size; made up for this example."""


def kernel_ns(kernel, times):
    measured = isinstance(kernel, kernels.Product) and MEASURED_NS.get((kernel.m, kernel.n, kernel.k))
    return kernel.copies * measured if measured else times.fitted_ns(kernel)


COSTS = CostModel("measured", "products as measured", kernel_ns)
