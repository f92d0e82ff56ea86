// Package page tests the page of controllers in a browser, with a made-up cluster (cluster/api/
// apitest) that has everything the page can show. tests/cluster has a test of it with a real one.
//
// PHOS_SCREENSHOTS=DIR keeps pictures of all views. Read site_test.go.
package page
