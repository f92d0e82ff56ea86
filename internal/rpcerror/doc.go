// Package rpcerror carries sentinel errors over gRPC, so that errors.Is answers alike on both
// sides: a table gives each sentinel a code of its own.
//
// Read table.go.
package rpcerror
