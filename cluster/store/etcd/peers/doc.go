// Package peers makes the certificates by which the etcds of several controllers know each other,
// before there is a store that could hold a CA. This CA signs nothing else: the holder of one of
// its certificates may read and write all that the cluster keeps.
//
// A folder is made once, on one machine. Each controller gets the files of its own folder in it;
// the key of the CA stays, and is needed again only to replace a controller.
//
//	ca.crt ca.key            the CA
//	NAME/ca.crt member.crt member.key
//
// Read make.go.
package peers
