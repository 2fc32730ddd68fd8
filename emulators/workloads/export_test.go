package workloads

// EndNamespace calls endNamespace for a namespace that was listed as deleted.
var EndNamespace = (*Controller).endNamespace
