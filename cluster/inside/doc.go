// Package inside connects parts of a controller to its own gRPC server without a network: what
// speaks another protocol to callers stands on the services that gRPC serves, with their checks and
// their limits.
//
// The part has found out which caller it has; the server is told the same (Server.Credentials). A
// connection that comes from outside can claim no caller: it takes the handshake of the server's
// own credentials. Read server.go.
package inside
