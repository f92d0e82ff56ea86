// Package metrics exports phosd's numbers to Prometheus: counters (count.go), and the current
// status (collect.go). Tested by daemon/phosd and tests/policy. Read Metrics.
package metrics
