// Package python tests the Python package in python/: its unit tests, and its wheel. tests/cluster
// drives a cluster with it. Read python_test.go.
package python
