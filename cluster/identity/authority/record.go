package authority

import (
	"fmt"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/versioned"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
)

// ringRecord is a Ring as it is kept.
type ringRecord struct {
	Version  int                `json:"version"`
	Cluster  identity.ClusterID `json:"cluster"`
	Signer   caRecord           `json:"signer"`
	Next     *caRecord          `json:"next,omitempty"`
	Previous string             `json:"previous,omitempty"`
}

// caRecord is an Authority as it is kept, in PEM.
type caRecord struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// ringVersion is that of the newest ringRecord.
const ringVersion = 1

// Marshal returns the record of a Ring. It holds the keys: only controllers may read it.
func (r Ring) Marshal() ([]byte, error) {
	signer, err := r.signer.record()
	if err != nil {
		return nil, err
	}
	record := ringRecord{Version: ringVersion, Cluster: r.signer.cluster, Signer: signer}
	if r.next != nil {
		next, err := r.next.record()
		if err != nil {
			return nil, err
		}
		record.Next = &next
	}
	if r.previous != nil {
		record.Previous = string(encodeCertificate(r.previous))
	}
	return versioned.Encode(record)
}

// record returns an Authority as it is kept.
func (a *Authority) record() (caRecord, error) {
	key, err := encodeKey(a.key)
	if err != nil {
		return caRecord{}, fmt.Errorf("write the CA: %w", err)
	}
	return caRecord{string(encodeCertificate(a.certificate)), string(key)}, nil
}

// UnmarshalRing reads what Ring.Marshal returns, and checks that keys, certificates and cluster
// belong together. A CA that has ended is read, too, so that it can be replaced.
func UnmarshalRing(text []byte) (Ring, error) {
	r, err := unmarshalRing(text)
	if err != nil {
		return Ring{}, fmt.Errorf("record of the CA: %w", err)
	}
	return r, nil
}

// unmarshalRing is UnmarshalRing without the words around its errors.
func unmarshalRing(text []byte) (Ring, error) {
	var record ringRecord
	err := versioned.Decode(text, ringVersion, &record)
	if err != nil {
		return Ring{}, err
	}
	var r Ring
	if r.signer, err = record.Signer.authority(); err != nil {
		return Ring{}, fmt.Errorf("%w: signer: %w", versioned.ErrDamaged, err)
	}
	if record.Next != nil {
		if r.next, err = record.Next.authority(); err != nil {
			return Ring{}, fmt.Errorf("%w: next: %w", versioned.ErrDamaged, err)
		}
	}
	if record.Previous != "" {
		if r.previous, err = decodeCertificate([]byte(record.Previous)); err != nil {
			return Ring{}, fmt.Errorf("%w: previous: %w", versioned.ErrDamaged, err)
		}
	}
	return r, r.check(record.Cluster)
}

// check returns an error if the CAs are not those of the cluster.
func (r Ring) check(cluster identity.ClusterID) error {
	b, err := NewBundle(r.Bundle().certificates...)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", versioned.ErrDamaged, err)
	case b.cluster != cluster:
		return fmt.Errorf("%w: the CA is %w", versioned.ErrDamaged, identity.ErrOtherCluster)
	case r.next != nil && r.previous != nil:
		return fmt.Errorf("%w: next and previous at once", versioned.ErrDamaged)
	}
	return nil
}

// authority is the inverse of Authority.record.
func (c caRecord) authority() (*Authority, error) {
	certificate, err := decodeCertificate([]byte(c.Certificate))
	if err != nil {
		return nil, err
	}
	key, err := decodeKey([]byte(c.Key))
	if err != nil {
		return nil, err
	}
	return newAuthority(certificate, key)
}

// SaveRing writes the record of a Ring to a file of mode 0600.
func SaveRing(path string, r Ring) error {
	text, err := r.Marshal()
	if err != nil {
		return err
	}
	return privatefile.Write(path, text)
}

// LoadRing reads what SaveRing has written. A file that others can read is privatefile.ErrExposed.
func LoadRing(path string) (Ring, error) {
	text, err := privatefile.Read(path, versioned.MaxBytes)
	if err != nil {
		return Ring{}, err
	}
	r, err := UnmarshalRing(text)
	if err != nil {
		return Ring{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
