"""What CEL computes with, and its functions as Kubernetes has them."""
