// What Crane's own predictors say of a recorded series, with nothing of theirs rewritten: JSON in, JSON out.
//
// A fit sees the samples before its row alone. Crane's predictors ask a provider for the history and label what they
// predict by its timestamps, so recorded time takes the place of the clock.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gocrane/api/prediction/v1alpha1"
	"github.com/gocrane/crane/pkg/common"
	"github.com/gocrane/crane/pkg/metricnaming"
	"github.com/gocrane/crane/pkg/metricquery"
	"github.com/gocrane/crane/pkg/prediction"
	"github.com/gocrane/crane/pkg/prediction/config"
	"github.com/gocrane/crane/pkg/prediction/dsp"
	"github.com/gocrane/crane/pkg/prediction/percentile"
	"k8s.io/klog/v2"
)

// A question: the series, the rows before which a model is fitted, and how many rows each predicts.
type question struct {
	Algorithm string               `json:"algorithm"`
	Begin     int64                `json:"begin"`
	Seconds   int64                `json:"seconds"`
	Values    []*float64           `json:"values"`
	Fits      []int                `json:"fits"`
	Rows      int                  `json:"rows"`
	DSP       *v1alpha1.DSP        `json:"dsp"`
	Days      int64                `json:"historyDays"`
	Quantile  *v1alpha1.Percentile `json:"percentile"`
}

// An answer: nothing predicted where the predictor finds no period.
type answer struct {
	Predicted  []float64 `json:"predicted"`
	CPUSeconds float64   `json:"cpuSeconds"`
}

type recorded struct{ question question }

func (r recorded) QueryTimeSeries(namer metricnaming.MetricNamer, _, _ time.Time, _ time.Duration) ([]*common.TimeSeries, error) {
	row, err := strconv.Atoi(namer.Caller())
	if err != nil {
		return nil, err
	}
	// As the predictors ask: the history and, for the DSP, an hour more.
	first := row - int((r.question.Days*86400+3600)/r.question.Seconds)
	if first < 0 {
		first = 0
	}
	series := &common.TimeSeries{}
	for i := first; i < row; i++ {
		if value := r.question.Values[i]; value != nil {
			series.AppendSample(r.at(i), *value)
		}
	}
	return []*common.TimeSeries{series}, nil
}

func (r recorded) QueryLatestTimeSeries(metricnaming.MetricNamer) ([]*common.TimeSeries, error) {
	return nil, fmt.Errorf("a recorded series has no latest sample")
}

func (r recorded) at(row int) int64 { return r.question.Begin + int64(row)*r.question.Seconds }

func (r recorded) namer(row int) *metricnaming.GeneralMetricNamer {
	return &metricnaming.GeneralMetricNamer{
		CallerName: strconv.Itoa(row),
		Metric: &metricquery.Metric{
			Type: metricquery.PromQLMetricType, MetricName: "load", Prom: &metricquery.PromNamerInfo{QueryExpr: "load"},
		},
	}
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	r := recorded{}
	if err := json.NewDecoder(os.Stdin).Decode(&r.question); err != nil {
		fail(err)
	}
	var predict func(row int) ([]float64, error)
	switch r.question.Algorithm {
	case "dsp":
		predictor := dsp.NewPrediction(r, r, config.AlgorithmModelConfig{UpdateInterval: 1000 * time.Hour})
		go predictor.Run(make(chan struct{}))
		predict = func(row int) ([]float64, error) { return r.periodic(predictor, row) }
	case "percentile":
		predictor := percentile.NewPrediction(r, r)
		predict = func(row int) ([]float64, error) { return r.quantile(predictor, row) }
	default:
		fail(fmt.Errorf("algorithm %q: dsp or percentile", r.question.Algorithm))
	}
	answers := []answer{}
	for _, row := range r.question.Fits {
		begun := cpuSeconds()
		values, err := predict(row)
		if err != nil {
			fail(err)
		}
		answers = append(answers, answer{values, cpuSeconds() - begun})
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fail(err)
	}
}

func (r recorded) periodic(predictor prediction.Interface, row int) ([]float64, error) {
	namer := r.namer(row)
	if err := predictor.WithQuery(namer, "bench", config.Config{DSP: r.question.DSP}); err != nil {
		return nil, err
	}
	for {
		if status, err := predictor.QueryPredictionStatus(context.Background(), namer); err != nil {
			return nil, err
		} else if status == prediction.StatusReady {
			break
		}
		time.Sleep(time.Millisecond)
	}
	from, to := time.Unix(r.at(row), 0), time.Unix(r.at(row+r.question.Rows-1), 0)
	lists, err := predictor.QueryPredictedTimeSeries(context.Background(), namer, from, to)
	if err != nil {
		return nil, err
	}
	values := []float64{}
	for _, list := range lists {
		for _, sample := range list.Samples {
			values = append(values, sample.Value)
		}
	}
	return values, predictor.DeleteQuery(namer, "bench")
}

func (r recorded) quantile(predictor prediction.Interface, row int) ([]float64, error) {
	lists, err := predictor.QueryRealtimePredictedValuesOnce(
		context.Background(), r.namer(row), config.Config{Percentile: r.question.Quantile})
	if err != nil {
		return nil, err
	}
	values := []float64{}
	for range r.question.Rows {
		for _, list := range lists {
			values = append(values, list.Samples[0].Value)
		}
	}
	return values, nil
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
