package server_test

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestX(t *testing.T) {
	for range 3 {
	at := time.Now()
	s, err := server.Start(t.Context(), servertest.Config(t))
	t.Log(time.Since(at))
	if err != nil {
		t.Fatal(err)
	}
	at = time.Now()
	s.Close()
	t.Log(time.Since(at))
	}
	at := time.Now()
	servertest.Start(t, servertest.Config(t))
	t.Log(time.Since(at))
}
