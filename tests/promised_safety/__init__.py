"""What pages promise about safety, and the tests that try to show it false: ``promises.yaml`` has them."""
