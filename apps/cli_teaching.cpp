// The options of the commands for teaching.
#include "gossamer/apps/cli_options.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/what_if.h"

namespace gossamer::apps {

namespace {

void add_course(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "course", "Units to learn from, with exercises that are checked: gossamer course");
  CourseCommand& c = run_on(a, course, code);
  const auto unit = [&](const char* what, const char* about) {
    CLI::App& b = *a.add_subcommand(what, about);
    b.add_option("unit", c.unit, "its number, as `gossamer course` lists it")->required();
    b.callback([&c, what] { c.what = what; });
    add_json(b, c.json);
    return &b;
  };
  unit("start", "Show a unit's page; write it and the file to fill into course/");
  CLI::App& check_app = *unit(
      "check", "Compile what was written against the library and test it (exit code 1: wrong)");
  check_app.add_option("file", c.file, "the file; default: that of `start`");
  check_app
      .add_option("--timeout", c.timeout, "seconds after which a test that does not end fails")
      ->capture_default_str();
  unit("solution", "Show a solution of a unit");
  CLI::App& grade = *a.add_subcommand(
      "grade",
      "Check the files of all students. It runs what they have written: do it in a "
      "container");
  grade.add_option("folder", c.folder, "holds a folder for each student")->required();
  grade.add_flag("--csv", c.csv, "print lines of comma-separated values");
  grade.add_option("--timeout", c.timeout, "seconds after which a test that does not end fails")
      ->capture_default_str();
  grade.callback([&c] { c.what = "grade"; });
  add_json(grade, c.json);
  a.add_flag("--lecturer", c.lecturer, "show a module of ten lectures: objectives, order, grading");
  add_json(a, c.json);
}

void add_tape(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "tape", "What a forward pass records for the backward pass: gossamer tape resnet8-cifar");
  TapeCommand& c = run_on(a, tape_of_model, code);
  a.add_option("model", c.model, "as of bench step: resnet50, gpt2:2x64:32:100 ...")->required();
  a.add_option("--batch", c.batch, "pictures or texts")->capture_default_str();
  a.add_option("--size", c.size, "side of the pictures; 0: the model's own")->capture_default_str();
  a.add_option("--dtype", c.dtype, "f32 or bf16")->capture_default_str();
  a.add_option("--svg", c.svg, "file for a drawing");
  add_json(a, c.json);
}

void add_what_if(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "what-if", "Speed of a run that was not made: gossamer what-if runs/NAME --workers 64");
  WhatIfCommand& c = run_on(a, what_if, code);
  a.add_option("run", c.run, "runs/NAME of two or more workers, trained with run.trace=true")
      ->required();
  a.add_option("--workers", c.workers, "number of workers [as of the run]");
  a.add_option("--machines", c.machines, "that share them; their cores are shared [as of the run]");
  a.add_option("--graph", c.graph, "a graph that `gossamer graph --help` lists [as of the run]");
  a.add_option("--method", c.method, "a method that `simulate timeline` takes [as of the run]");
  a.add_option("--bandwidth", c.bandwidth, "bits a second of a link, as 10G [as of the run]");
  a.add_option("--slow", c.slow, "3:x2, or 3:0.5, makes worker 3 half as fast; may be repeated");
  add_json(a, c.json);
}

void add_lesson(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "lesson", "Decentralized training by hand: gossamer lesson > lesson.html");
  LessonCommand& c = run_on(a, lesson, code);
  a.add_option("--section", c.section, "one of its sections as a page of its own, such as decay");
  a.add_option("--words", c.words,
               "file of its words in another language: apps/lesson/words.json, translated");
  a.add_option("--run", c.runs,
               "runs/NAME of several workers, to show in the section `run`; may be repeated");
}

}  // namespace

void add_teaching(CLI::App& app, int& code) {
  add_course(app, code);
  add_tape(app, code);
  add_what_if(app, code);
  add_lesson(app, code);
}

}  // namespace gossamer::apps
