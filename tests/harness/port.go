package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a TCP port of this machine that nothing listens at. It is below those that the
// kernel gives to connections and to listeners at any port: one of them could take it before the
// test does.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(22_768))
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
