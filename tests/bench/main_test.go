package bench

import (
	"testing"

	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }
