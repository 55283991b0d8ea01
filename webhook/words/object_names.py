"""The allowed names of Kubernetes objects: k8s.io/apimachinery, pkg/util/validation.

A request with such a name stays within its path and selector.
"""

import re

NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""The form of the name of a namespace: IsDNS1123Label."""
OBJECT = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
"""The form of the name of an object: IsDNS1123Subdomain, as far as it keeps a name within its path."""
