// Package metrics is phosd in numbers, for Prometheus: what it has counted (count.go), and what its
// status says at the moment when somebody asks (collect.go). It knows nothing that --status does
// not show. Read Metrics.
package metrics
