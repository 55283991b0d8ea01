"""Why a pod has NVLink, or has not; pure, with the rules of admission and bind."""
