//go:build !amd64 && !arm64

package wire

func pause() {}
