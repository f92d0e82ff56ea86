// Package imagecmd is what pos_cli does with checkpoint images: it shows them, checks them and
// thins them out, in tables for people and in JSON for scripts. Everything that an image says may
// be made up, so nothing of it gets to a terminal unprinted.
//
// It decides nothing about the format: package ckpt/store does the work, and phosd the judging of
// seals. Read output.go, then list.go.
package imagecmd
