"""What changes the Kubernetes of the cluster; run alone, because the cluster stays as it is afterwards."""
