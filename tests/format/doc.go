// Package format holds FORMAT.md to its word: a reader of checkpoint images that was written from
// that page, and shares no line with package ckpt/store, must find in the committed images what
// they are known to hold. Read reader_test.go beside the page.
package format
