// Package saved is what is written down of a session to make it again elsewhere: everything but the
// content of memory. It is data and its encoding, and knows neither GPUs nor how to make anything;
// package session fills a Session in and makes a session of one.
//
// Each kind of object has a file with its fields and one function that walks over them, for writing
// and for reading alike, so that the two cannot differ. Objects are in the order of creation, which
// puts what is referred to before what refers to it. Code stands first: it is most of the bytes,
// and those of an unchanged program stay where they were, so that a store that cuts its content in
// pieces has them already.
//
// What is decoded may have been made by an enemy: no input makes Decode panic, or allocate more
// than a small multiple of its length. That the objects fit each other is for package session to
// check.
//
// Read session.go first, then coder.go.
package saved
