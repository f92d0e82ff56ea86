// Package endpoint reads where metrics are served: the text of a setting. It links no server, so
// that commands can check settings, too. Tested by daemon/config. Read endpoint.go.
package endpoint
