"""What runs on each node: cards become ResourceSlices, allocated claims become what a container sees."""
