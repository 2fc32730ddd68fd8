package workloads

// EndNamespace empties and ends a namespace that was listed as deleted.
var EndNamespace = (*Controller).endNamespace
