"""The GPUs that a scheduler gave to a pod, in the forms of HAMi, Volcano and Koordinator; standard library only."""
