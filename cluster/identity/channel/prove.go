package channel

import (
	"context"
	"crypto/tls"

	"github.com/phos-gpu/phos/cluster/identity"
)

// Prove returns an error unless a controller whose CA has this fingerprint is at an address. The
// error is a *net.OpError if nothing can be reached there. It is there for its errors, which gRPC
// wraps beyond recognition.
func Prove(ctx context.Context, address string, ca identity.Fingerprint, clock Clock) error {
	dialer := tls.Dialer{Config: FirstContact(ca, clock)}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
