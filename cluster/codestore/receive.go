package codestore

import (
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
)

// Receive writes the parts of packed code that next returns until io.EOF, and checks that they
// are what the name says.
func Receive(to io.Writer, ref *api.CodeRef, next func() (*api.CodePart, error)) error {
	hash, got := blake3.New(), uint64(0)
	for {
		part, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return api.FromStatus(err)
		}
		data := part.GetData()
		if got += uint64(len(data)); got > ref.GetBytes() {
			return api.Invalid("more code was sent than announced")
		}
		_, _ = hash.Write(data) // a hash takes all
		if _, err := to.Write(data); err != nil {
			return fmt.Errorf("keep code: %w", err)
		}
	}
	if got != ref.GetBytes() || string(hash.Sum(nil)) != string(ref.GetHash()) {
		return api.Invalid(fmt.Sprintf("code of %d bytes does not have the hash that was announced", got))
	}
	return nil
}
