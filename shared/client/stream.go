package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/sluicegate/sluice/shared/api"
)

// ExportUsage writes the usage of an environment's keys to w as CSV. from and to are as in
// [Client.Usage], and per is one of [api.Pers], by default the window. After an error, w has received
// only a part of the export, or nothing.
func (c *Client) ExportUsage(ctx context.Context, project, environment, from, to, per string, w io.Writer) error {
	asked := api.UsageExport{Window: api.Window{From: unless(from, ""), To: unless(to, "")}, Per: per}
	return c.stream(ctx, api.ExportUsage.Row, reflect.ValueOf(asked), w, project, environment)
}

// stream copies a response of any size. The client's timeout limits the time until its start and
// for each of its parts, but not the time that w takes. stream retries only until the start.
func (c *Client) stream(ctx context.Context, row *api.Row, in reflect.Value, w io.Writer, path ...string) error {
	address, err := c.address(row, path, values(in, url.Values{}).Encode())
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		started, err := c.streamOnce(ctx, row, address, w)
		if err == nil || started || try >= c.tries || !c.pause(ctx, try, err) {
			return err
		}
	}
}

func (c *Client) streamOnce(ctx context.Context, row *api.Row, address string, w io.Writer) (started bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(c.timeout, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	res, err := c.open(ctx, row, address, nil)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		body, err := readBody(res)
		if err != nil {
			return false, causeOf(ctx, err)
		}
		return false, readError(res, body)
	}
	_, err = io.Copy(w, limited{res.Body, late, c.timeout})
	if err != nil {
		return true, fmt.Errorf("read response: %w", causeOf(ctx, err))
	}
	return true, nil
}

// causeOf returns the reason for which ctx was canceled, or else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// limited runs a timer during each read.
type limited struct {
	io.Reader
	late    *time.Timer
	timeout time.Duration
}

func (r limited) Read(b []byte) (int, error) {
	r.late.Reset(r.timeout)
	defer r.late.Stop()
	return r.Reader.Read(b)
}
