package record

import (
	"fmt"
	"time"
)

// Cluster is the one object about the cluster itself.
type Cluster struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
}

// clusterVersion is the version that Encode writes.
const clusterVersion = 1

// Encode returns the value for the store.
func (c *Cluster) Encode() []byte { return encode("cluster", clusterVersion, c) }

// DecodeCluster reads a value of the store.
func DecodeCluster(text []byte) (Cluster, error) {
	var c Cluster
	if err := decode(text, "cluster", clusterVersion, &c); err != nil {
		return Cluster{}, err
	}
	if c.ID == "" {
		return Cluster{}, fmt.Errorf("cluster: %w: it has no id", ErrDamaged)
	}
	return c, nil
}
