// Package imagecmd implements the image verbs of pos_cli: list, show, check, verify, diff, prune
// and key, and --clean. It prints tables for people and JSON for scripts. An attacker may have
// written an image, so every text from an image is made printable before it reaches a terminal.
//
// The format is ckpt/store's, and phosd checks the seals. Read output.go, then list.go.
package imagecmd
