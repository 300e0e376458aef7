"""An RTSP server for tests, GStreamer's own: a moving ball as JPEG. Runs under Debian's Python.

/usr/bin/python3 tests/rtsp_server.py PORT
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

PIPELINE = (
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=240,framerate=15/1 "
    "! jpegenc ! rtpjpegpay name=pay0 pt=26 )"
)


def main() -> None:
    """Serves until it is killed; prints a line when it is ready."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(sys.argv[1])
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(PIPELINE)
    factory.set_shared(True)
    server.get_mount_points().add_factory("/rgb", factory)
    if not server.attach(None):
        sys.exit("cannot listen")
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
