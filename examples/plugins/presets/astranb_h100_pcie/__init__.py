"""A plug-in: the H100 in its PCIe form, as a file of a GPU."""

from pathlib import Path

FILE = Path(__file__).with_name("h100-pcie.yaml")
