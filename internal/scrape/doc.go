// Package scrape serves the numbers of a daemon to Prometheus, on this machine alone: at a loopback
// address or a unix socket (internal/scrape/endpoint). What clients can take is bounded. Read
// serve.go.
package scrape
