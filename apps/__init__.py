"""Programs of a page or two to copy from; installed, `python -m edge_sdk_apps.inspect_folder` and so on."""
