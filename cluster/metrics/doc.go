// Package metrics has the numbers of controllers and agents for Prometheus. Names are those of the
// field: base units, _total for what only grows, few labels. Numbers of the cluster are those of
// the controller that leads; the others say only that they do not lead.
//
// internal/scrape serves them. docs/operating.md lists them. Read controller.go.
package metrics
