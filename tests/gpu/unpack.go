package main

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// unpack decompresses a bundle, on machines without zstd.
func unpack(to io.Writer, from io.Reader) error {
	decoder, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return err
	}
	defer decoder.Close()
	if _, err := io.Copy(to, decoder); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return nil
}
