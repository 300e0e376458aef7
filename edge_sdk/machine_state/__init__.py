"""What state the machine is in: mode, clocks, heat, throttling, memory; read, watched, compared, prepared."""
