// Command bare is the least that answers a request over HTTP: what a function's start
// is compared with.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "{\"msg\":\"serving\",\"address\":%q}\n", l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}
