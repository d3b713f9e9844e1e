"""``python -m benchmarks.prepare.inpod``: our kubelet plugin with a service account's credentials, as in its pod.

The command line of the plugin takes a kubeconfig where there is no pod, and reading one needs a package that takes more
memory than the plugin itself.
"""

import os
import signal
import sys
from pathlib import Path

from driver.kube.access import in_cluster
from driver.kube.client import KubeClient
from driver.observe import configure_logs
from driver.settings_file import settings_in
from kubeletplugin.__main__ import API_SECONDS, PluginProcess


def main(settings_file: str, node_name: str, service_account: str) -> int:
    """Run the plugin until SIGTERM. ``service_account`` is the folder with the token and the CA."""
    settings = settings_in(settings_file)
    configure_logs(settings.log_level, settings.log_format)
    api = KubeClient(in_cluster(os.environ, Path(service_account)), call_seconds=API_SECONDS)
    process = PluginProcess(api, settings, node_name, "")
    signal.signal(signal.SIGTERM, lambda _number, _frame: process.stop())
    return process.run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
