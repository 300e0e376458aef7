"""What a run tells other machines and the init system: MQTT messages, and systemd's watchdog."""
