"""Other formats that become traces, and back."""
