// Package format tests that FORMAT.md is complete. Its reader of checkpoint images was written from
// that page, and shares no code with package ckpt/store. It must find the known content in the
// committed images. Read reader_test.go together with the page.
package format
