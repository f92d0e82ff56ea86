// Package gateway serves the services Launches and Cluster of package api as JSON by HTTP/1.1, for
// clients that have no gRPC: the Python package, and curl.
//
//	POST /v1/Launches/List        the request as JSON; the answer is the reply as JSON
//	POST /v1/Launches/Logs        of a stream, one line of JSON for each reply
//	POST /v1/Launches/Exec        as many lines of JSON as there are messages of the client
//	POST /v1/code                 a zip file; the answer is the CodeRef of what it holds
//
// It stands beside gRPC on the same addresses: gRPC speaks HTTP/2 there (Split). A request is made
// inside the controller as its caller (package inside), so the rights are those of gRPC. Errors
// have the code of gRPC by name. A stream that fails ends with a line that has the error.
//
//	server.go  the HTTP server, and its connections
//	split.go   which connections are HTTP/1.1
//	call.go    requests, and their replies as JSON
//	code.go    zip files
//	fault.go   errors
//	refuse.go  requests that are answered before all of them was read
//
// Read server.go first. Tested by tests/cluster, too.
package gateway
