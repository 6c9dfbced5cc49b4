"""A plug-in: the H100 in its PCIe form, by the numbers in which it differs from the SXM one."""

from dataclasses import replace

from astranb.gpu import preset

SOURCE = "NVIDIA H100 PCIe data sheet"
BASE = preset("h100-sxm").but(sms=114, hbm_Bps=2_000_000_000_000)
SOURCES = {**BASE.sources, "sms": SOURCE, "hbm_Bps": SOURCE}
PRESET = replace(BASE, name="h100-pcie", sources=SOURCES)
